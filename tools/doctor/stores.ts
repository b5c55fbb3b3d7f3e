import { requireLockable } from "../../ipam/host-local/main.ts"
import { dirname, exists } from "../../pkg/libc/mod.ts"
import { Code, isCniError } from "../../pkg/types/mod.ts"
import type { Check, Finding } from "./finding.ts"
import { sh } from "./remedy.ts"

/** Finds entries in host-local's stores that plugins cannot use, such as a directory as lock or a FIFO as lease. */
export const checkStores: Check = ({ node: { stores } }) =>
  stores.flatMap(({ network, directory, broken = [] }) =>
    broken.map(({ path, kind }): Finding => {
      const isDirectory = kind === "a directory"
      return {
        rule: "store-broken",
        severity: "error",
        network,
        cause: dirname(path),
        affected: [{ name: `"${path}"` }],
        what: `"${path}" is ${kind}, but host-local needs ${path === `${directory}/.index` ? "a directory" : "a file"} there`,
        ofMany: (count) => `${count} entries of "${dirname(path)}" do not have the file type that host-local needs`,
        why: "host-local fails or skips it: containers get no address, or the pool loses an address",
        remedy: isDirectory ? sh`mv -T ${path} ${`${path}.old`}` : sh`rm ${path}`,
        note: isDirectory
          ? "inspect its content, then remove it; host-local re-creates its own files"
          : "host-local re-creates its own files",
      }
    }),
  )

/** The maximum wait for a lock. In a burst of calls, each call holds the lock for a few milliseconds. */
const LOCK_MS = 2000

/** Finds locks of host-local's stores that a process does not release. */
export const checkLocks: Check = ({ node: { stores } }) =>
  stores.flatMap(({ network, directory, broken = [] }): Finding[] => {
    if (broken.length > 0 || !exists(`${directory}/lock`)) return []
    try {
      requireLockable(directory, LOCK_MS)
      return []
    } catch (error) {
      if (!isCniError(error, Code.TryAgainLater)) return []
      return [
        {
          rule: "store-locked",
          severity: "error",
          network,
          what: `no address of network "${network}" can be reserved: ${error.message}`,
          why: "every ADD and DEL of the network waits for the lock, and fails",
          remedy: "find out why the process waits, or end it: the kernel then releases the lock",
        },
      ]
    }
  })
