/** Linux error numbers by name, and the error a libc call throws. Pure. */

/** The numbers that calls in this program meet; x86-64 and aarch64. */
export const ERRNO = {
  EPERM: 1,
  ENOENT: 2,
  ESRCH: 3,
  EINTR: 4,
  EIO: 5,
  EBADF: 9,
  EAGAIN: 11,
  ENOMEM: 12,
  EACCES: 13,
  EFAULT: 14,
  EBUSY: 16,
  EEXIST: 17,
  ENODEV: 19,
  ENOTDIR: 20,
  EISDIR: 21,
  EINVAL: 22,
  ENFILE: 23,
  EMFILE: 24,
  ENOSPC: 28,
  EROFS: 30,
  ENAMETOOLONG: 36,
  ENOSYS: 38,
  ELOOP: 40,
  EMSGSIZE: 90,
  EOPNOTSUPP: 95,
  ENOBUFS: 105,
  ENOTCONN: 107,
  ETIMEDOUT: 110,
  ECONNREFUSED: 111,
  EHOSTDOWN: 112,
  ESTALE: 116,
} as const;

const NAMES: ReadonlyMap<number, string> = new Map(Object.entries(ERRNO).map(([name, number]) => [number, name]));

/** "ENOENT"; "errno 200" for a number that has no name here. */
export function errnoName(errno: number): string {
  return NAMES.get(errno) ?? `errno ${errno}`;
}

/** What callers rely on in a libc error; recognise one by `name` where only types of ffi may be imported. */
export interface ErrnoFailure extends Error {
  readonly name: "ErrnoError";
  /** The C function. */
  readonly call: string;
  /** Null for a call on a descriptor. */
  readonly path: string | null;
  readonly errno: number;
  /** "ENOENT". */
  readonly code: string;
}

/** A refused libc call. */
export class ErrnoError extends Error implements ErrnoFailure {
  override readonly name = "ErrnoError";
  readonly code: string;
  readonly path: string | null;
  constructor(readonly call: string, readonly errno: number, options: ErrorOptions & { path?: string } = {}) {
    const name = errnoName(errno);
    super(`Cannot ${call}${options.path === undefined ? "" : ` ${options.path}`}: ${name}`, options);
    this.code = name;
    this.path = options.path ?? null;
  }
}
