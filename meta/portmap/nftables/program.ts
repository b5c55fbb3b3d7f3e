import { decodeUtf8, encodeUtf8 } from "../../../pkg/engine/mod.ts"
import { isErrno, isRegularFile, spawn, stat } from "../../../pkg/libc/mod.ts"
import { CniError, Code } from "../../../pkg/types/mod.ts"

/** Where distributions put it; a plugin does not look at the caller's PATH. */
const PLACES = ["/usr/sbin/nft", "/sbin/nft", "/usr/bin/nft", "/bin/nft", "/usr/local/sbin/nft"] as const
const ENVIRONMENT = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL: "C" } as const
const TIME_LIMIT_MS = 30_000
const OUTPUT_LIMIT = 1 << 20

/** The absolute path of the program `nft`; undefined when it is not installed. */
export function findNft(places: readonly string[] = PLACES): string | undefined {
  return places.find((path) => {
    try {
      return isRegularFile(stat(path))
    } catch (error) {
      if (isErrno(error, "ENOENT", "ENOTDIR", "EACCES", "ELOOP")) return false
      throw error
    }
  })
}

/** Runs `nft -f -`: all of the text in one transaction, or nothing. Throws `CniError` with the program's own words. */
export function runNft(text: string): void {
  const path = findNft()
  if (!path) {
    throw new CniError(Code.Internal, `Cannot set conditions: the program "nft" is not in ${PLACES.join(", ")}`, {
      details: 'install nftables, or leave "conditionsV4" and "conditionsV6" out: all else needs no program',
    })
  }
  const { exitCode, timedOut, stderr } = spawn({
    path,
    args: ["-f", "-"],
    env: ENVIRONMENT,
    cwd: "/",
    stdin: encodeUtf8(text),
    timeoutMs: TIME_LIMIT_MS,
    outputLimit: OUTPUT_LIMIT,
  })
  if (exitCode === 0) return
  const words = timedOut ? `it did not end within ${TIME_LIMIT_MS} ms` : decodeUtf8(stderr).trim()
  throw new CniError(Code.Internal, `Cannot map ports by ${path}: ${words.replace(/\s*\n\s*/g, "; ")}`)
}
