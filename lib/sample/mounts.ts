/** Paths as another process sees them, as ours: a container's model folder is usually a volume of the host. */

interface Mount {
  /** major:minor */
  readonly device: string;
  /** Which part of the file system is mounted. */
  readonly root: string;
  readonly point: string;
}

/**
 * The path under which we reach what a process calls `path`; null when no mount of ours shows it. Both texts are a
 * `mountinfo`; equal ones mean the same view.
 */
export function mapToOurs(path: string, theirs: string, ours: string): string | null {
  if (theirs === ours) return path;
  // The last mount on a point hides those before it.
  const over = parseMounts(theirs).findLast(({ point }, _, all) =>
    isBelow(path, point) && !all.some((other) => isBelow(path, other.point) && other.point.length > point.length)
  );
  if (over === undefined) return null;
  const inside = join(over.root, path.slice(over.point === "/" ? 0 : over.point.length));
  const candidates = parseMounts(ours).filter(({ device, root }) => device === over.device && isBelow(inside, root));
  // The mount with the largest part of the file system is the file system's own.
  const [best] = candidates.toSorted((a, b) => a.root.length - b.root.length);
  return best === undefined ? null : join(best.point, inside.slice(best.root === "/" ? 0 : best.root.length));
}

/** `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw`: the fields by their place, spaces as \040. */
function parseMounts(text: string): readonly Mount[] {
  return text.split("\n").flatMap((line) => {
    const [, , device, root, point] = line.split(" ");
    if (device === undefined || root === undefined || point === undefined) return [];
    return [{ device, root: unescape(root), point: unescape(point) }];
  });
}

function unescape(text: string): string {
  return text.replaceAll(/[\\]([0-7]{3})/g, (_, octal: string) => String.fromCharCode(parseInt(octal, 8)));
}

function isBelow(path: string, folder: string): boolean {
  return folder === "/" || path === folder || path.startsWith(`${folder}/`);
}

function join(base: string, rest: string): string {
  const tail = rest.replace(/^\/+/, "");
  if (tail === "") return base;
  return base === "/" ? `/${tail}` : `${base}/${tail}`;
}
