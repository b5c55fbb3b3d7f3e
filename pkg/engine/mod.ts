/**
 * The interface to the engine; no other package depends on an engine. `Engine` has everything that a plugin needs from
 * outside. The build for the native host uses `native.ts`, the npm package `node.ts`, everything else `bun.ts`
 * ("imports" of package.json).
 *
 * System calls go through `pkg/libc`, which throws errors with names; text, digests and the positions of stack traces
 * are for every room.
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
