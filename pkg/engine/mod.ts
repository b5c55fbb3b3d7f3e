/**
 * The interface to the engine; no other package depends on an engine. `Engine` has everything that a plugin needs from
 * outside. "imports" of package.json selects the back end: `native.ts` in the build for the native host, `node.ts` in
 * the npm package, `bun.ts` everywhere else.
 *
 * Other packages make system calls by `pkg/libc`, which throws errors with names. All packages use the functions for
 * text, digests and positions of stack traces directly.
 *
 * @example
 * const bytes = encodeUtf8("eth0")
 * const answer = engine.read(fd, bytes) // pkg/libc only: -9 is EBADF
 */
import { decodeBase64, encodeBase64, engine, exhaustion, json, locate } from "#engine"

export { crc32, sha256, sha512 } from "./digest.ts"
export {
  AT_EMPTY_PATH,
  AT_FDCWD,
  AT_SYMLINK_NOFOLLOW,
  type Engine,
  type Exhaustion,
  type ProgramEnd,
  type Stop,
  type TypedArray,
} from "./engine.ts"
export { sourceFrames, withFrames } from "./frames.ts"
export { findPosition } from "./positions.ts"
export { decodeBase64, encodeBase64, engine, exhaustion, json, locate }

export const { collectGarbage, decodeLatin1, decodeUtf8, encodeUtf8, findBytes, monotonicMs } = engine
