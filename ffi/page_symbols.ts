/**
 * The C library's functions about pages of files, as data: C signature, parameter names in the comment. 64-bit Linux,
 * glibc. `syscall` is variadic in C: see libc_symbols.ts for why a plain declaration is right.
 */
export const PAGE_SYMBOLS = {
  /** (void) → int *; one location per thread. */
  __errno_location: { parameters: [], result: "pointer" },
  /** (int name) */
  sysconf: { parameters: ["i32"], result: "i64" },
  /** syscall(SYS_cachestat, int fd, struct cachestat_range *range, struct cachestat *out, unsigned int flags); Linux 6.5 */
  cachestat: { name: "syscall", parameters: ["i64", "i64", "buffer", "buffer", "i64"], result: "i64" },
  /** syscall(SYS_ioprio_set, int which, int who, int ioprio); who 0 = the calling thread */
  ioprio_set: { name: "syscall", parameters: ["i64", "i64", "i64", "i64"], result: "i64" },
  /** syscall(SYS_openat2, int dirfd, const char *pathname, struct open_how *how, size_t size); Linux 5.6 */
  openat2: { name: "syscall", parameters: ["i64", "i64", "buffer", "buffer", "i64"], result: "i64" },
  /** (const char *name, unsigned int flags) */
  memfd_create: { parameters: ["buffer", "u32"], result: "i32" },
  /** (int fd) */
  close: { parameters: ["i32"], result: "i32" },
  /** (int fd, off_t offset, int whence) */
  lseek: { parameters: ["i32", "i64", "i32"], result: "i64" },
  /** (int fd, const struct iovec *iov, int iovcnt, off_t offset, int flags); the bare call splits the offset in two */
  preadv2: { parameters: ["i32", "pointer", "i32", "i64", "i32"], result: "i64" },
  /** (int fd, off_t offset, off_t len, int advice); answers the error number, errno stays as it was */
  posix_fadvise: { parameters: ["i32", "i64", "i64", "i32"], result: "i32" },
  /** (void *addr, size_t length, int prot, int flags, int fd, off_t offset) */
  mmap: { parameters: ["pointer", "usize", "i32", "i32", "i32", "i64"], result: "pointer" },
  /** (void *addr, size_t length) */
  munmap: { parameters: ["pointer", "usize"], result: "i32" },
  /** (void *addr, size_t length, int advice) */
  madvise: { parameters: ["pointer", "usize", "i32"], result: "i32" },
  /** (void *addr, size_t length, unsigned char *vec) */
  mincore: { parameters: ["pointer", "usize", "buffer"], result: "i32" },
  /** (const void *addr, size_t len, unsigned int flags); glibc 2.27 */
  mlock2: { parameters: ["pointer", "usize", "u32"], result: "i32" },
  /** (int who, struct rusage *usage) */
  getrusage: { parameters: ["i32", "buffer"], result: "i32" },
  /** (int fd, struct statfs *buf) */
  fstatfs: { parameters: ["i32", "buffer"], result: "i32" },
  /** (int dirfd, const char *pathname, int mode, int flags) */
  faccessat: { parameters: ["i32", "buffer", "i32", "i32"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

/** What reading a file to nowhere takes. */
export const DRAIN_SYMBOLS = {
  /** (void) → int *; one location per thread. */
  __errno_location: { parameters: [], result: "pointer" },
  /** (const char *pathname, int flags, mode_t mode) */
  open: { parameters: ["buffer", "i32", "u32"], result: "i32" },
  /** (int fd) */
  close: { parameters: ["i32"], result: "i32" },
  /** (int pipefd[2], int flags) */
  pipe2: { parameters: ["buffer", "i32"], result: "i32" },
  /** (int fd, int op, int arg) */
  fcntl: { parameters: ["i32", "i32", "i64"], result: "i32" },
  /** (int fd_in, off_t *off_in, int fd_out, off_t *off_out, size_t size, unsigned int flags) */
  splice: { parameters: ["i32", "buffer", "i32", "pointer", "usize", "u32"], result: "i64" },
  /** (int fd, void *buf, size_t count, off_t offset) */
  pread: { parameters: ["i32", "buffer", "usize", "i64"], result: "i64" },
} as const satisfies Deno.ForeignLibraryInterface;

/** Of these only ioprio_set has another number on aarch64. */
export const PAGE_SYS = {
  openat2: 437n,
  cachestat: 451n,
  ioprio_set: { x86_64: 251n, aarch64: 30n },
} as const;
