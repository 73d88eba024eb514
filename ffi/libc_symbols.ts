/**
 * The C library's functions that are used, as data: C signature, parameter names in the comment. 64-bit Linux, glibc.
 *
 * `syscall` and `open` are variadic in C; on x86-64 and aarch64 Linux variadic integers travel in the same registers as
 * named ones, so a plain declaration is right. Nothing here can start another program.
 */
export const LIBC_SYMBOLS = {
  /** (void) → int *; one location per thread. */
  __errno_location: { parameters: [], result: "pointer" },
  /** (const char *pathname, int flags, mode_t mode) */
  open: { parameters: ["buffer", "i32", "u32"], result: "i32" },
  /** (int fd) */
  close: { parameters: ["i32"], result: "i32" },
  /** (int fd, void *buf, size_t count) */
  read: { parameters: ["i32", "buffer", "usize"], result: "isize" },
  /** (const char *pathname, char *buf, size_t bufsiz); writes no terminator */
  readlink: { parameters: ["buffer", "buffer", "usize"], result: "isize" },
  /** (int fd, void *dirp, size_t count); glibc 2.30 */
  getdents64: { parameters: ["i32", "buffer", "usize"], result: "isize" },
  /** (int dirfd, const char *pathname, int flags, unsigned int mask, struct statx *statxbuf); glibc 2.28 */
  statx: { parameters: ["i32", "buffer", "i32", "u32", "buffer"], result: "i32" },
  /** (const char *pathname, mode_t mode) */
  chmod: { parameters: ["buffer", "u32"], result: "i32" },
  /** (const char *pathname, uid_t owner, gid_t group) */
  chown: { parameters: ["buffer", "u32", "u32"], result: "i32" },
  /** (int fd, int operation) */
  flock: { parameters: ["i32", "i32"], result: "i32" },
  /** (int domain, int type, int protocol) */
  socket: { parameters: ["i32", "i32", "i32"], result: "i32" },
  /** (int sockfd, int how) */
  shutdown: { parameters: ["i32", "i32"], result: "i32" },
  /** (int sockfd, const void *buf, size_t len, int flags, const struct sockaddr *dest_addr, socklen_t addrlen) */
  sendto: { parameters: ["i32", "buffer", "usize", "i32", "buffer", "u32"], result: "isize" },
  /** (size_t pad) */
  malloc_trim: { parameters: ["usize"], result: "i32" },
  /** (int name) */
  sysconf: { parameters: ["i32"], result: "i64" },
  /** (void) */
  geteuid: { parameters: [], result: "u32" },
  /** syscall(SYS_pidfd_open, pid_t pid, unsigned int flags); no wrapper before glibc 2.36 */
  pidfd_open: { name: "syscall", parameters: ["i64", "i64", "i64"], result: "i64" },
  /** syscall(SYS_pidfd_send_signal, int pidfd, int sig, siginfo_t *info, unsigned int flags) */
  pidfd_send_signal: { name: "syscall", parameters: ["i64", "i64", "i64", "i64", "i64"], result: "i64" },
} as const satisfies Deno.ForeignLibraryInterface;

/** System call numbers; the same on x86-64 and aarch64. */
export const SYS = { pidfd_send_signal: 424n, pidfd_open: 434n } as const;
