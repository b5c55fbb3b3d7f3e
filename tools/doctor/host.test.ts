import { expect, test } from "bun:test"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { checkClock, checkDisk, checkUnread } from "./host.ts"
import { attachmentOf, inputOf, printed } from "./testing/inputs.ts"

test("a clock that stands more than a minute before what has been written", () => {
  const at = (addedMs: number | undefined) =>
    printed(
      checkClock(
        inputOf({
          readMs: 1000,
          attachments: [attachmentOf(), attachmentOf(addedMs === undefined ? {} : { addedMs })],
        }),
      ),
    )
  expect(at(61_001)).toEqual([
    `warning clock-behind
the clock of this node shows 1970-01-01T00:00:01.000Z, but "pods/c1/eth0" was added at 1970-01-01T00:01:01.001Z
the clock was wrong then or is wrong now: certificates fail, and ages and times in logs are wrong
set the clock: timedatectl shows whether NTP sets it, and timedatectl set-ntp true enables NTP`,
  ])
  expect([at(61_000), at(1), at(undefined)]).toEqual([[], [], []])
})

test("parts of the node that could not be read, the packet filter among them", () => {
  const filter = { bases: [], rules: [] }
  expect(
    printed(
      checkUnread(
        inputOf({
          unread: [
            { what: "leases", reason: "EACCES" },
            { what: "rules", reason: "EPERM" },
          ],
        }),
      ),
    ),
  ).toEqual([
    ...["leases cannot be read: EACCES", "rules cannot be read: EPERM"].map(
      (what) => `warning cannot-look
the ${what}
faults in them are not among these findings
run cni doctor as root on the host, in its own namespaces`,
    ),
    `warning no-nftables
the kernel's nf_tables cannot be read
masquerade and port mappings need nf_tables, unless a configuration selects the backend iptables
modprobe nf_tables`,
  ])
  expect(checkUnread(inputOf({ filter }))).toEqual([])
})

test("a file system with room says nothing, also where the directories do not exist yet", () => {
  const directory = mkdtempSync(join(tmpdir(), "cni-disk-"))
  const places = { confDir: "", binDirs: [], cacheDir: directory, dataDir: join(directory, "a/b/c") }
  expect(printed(checkDisk(inputOf({ places, stores: [{ directory: join(directory, "x") }] })))).toEqual([])
  rmSync(directory, { recursive: true })
})
