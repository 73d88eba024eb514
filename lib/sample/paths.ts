/** Paths as text: nothing here looks at a disk. */

/** Without ".", ".." and doubled slashes; an absolute path stays one. */
export function normalizePath(path: string): string {
  const parts: string[] = [];
  for (const part of path.split("/")) {
    if (part === "" || part === ".") continue;
    if (part === "..") parts.pop();
    else parts.push(part);
  }
  return `/${parts.join("/")}`;
}

/** `path` seen from `folder`; an absolute one stays as it is. */
export function joinPath(folder: string, path: string): string {
  return path.startsWith("/") ? path : `${folder.replace(/\/+$/, "")}/${path}`;
}

export function isInside(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder === "/" ? "/" : `${folder}/`);
}

/** Folders that are no place for models, whoever names them: the kernel's own, and the machine's settings. */
const NEVER = ["/proc", "/sys", "/dev", "/etc"];

/** Why a folder is never taken for a place of models; null when it may be. Takes a real path. */
export function refuseRoot(realPath: string): string | null {
  if (realPath === "/") return "the whole file system is no model folder";
  const never = NEVER.find((folder) => isInside(realPath, folder));
  return never === undefined ? null : `nothing in ${never} is read as a model`;
}
