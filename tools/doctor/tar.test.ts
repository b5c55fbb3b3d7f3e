import { expect, test } from "bun:test"
import { tarOf } from "./tar.ts"

function tar(archive: Uint8Array, ...args: string[]): string {
  const { stdout, exitCode } = Bun.spawnSync(["tar", ...args], {
    stdin: archive,
    env: { PATH: process.env.PATH, TZ: "UTC", LC_ALL: "C" },
  })
  expect(exitCode).toBe(0)
  return stdout.toString()
}

const long = `${"d".repeat(90)}/${"f".repeat(60)}`
const files = new Map([
  ["a/b.txt", "hello\n"],
  ["empty", ""],
  ["block", "x".repeat(512)],
  [long, "ü"],
])

test("tar reads names, sizes, owner, mode and time as they were written", () => {
  const listed = tar(tarOf(files, Date.UTC(2026, 0, 2, 3, 4, 5)), "tvf", "-")
    .trim()
    .split("\n")
  expect(listed.map((line) => line.replace(/\s+/g, " "))).toEqual([
    "-rw------- root/root 6 2026-01-02 03:04 a/b.txt",
    "-rw------- root/root 0 2026-01-02 03:04 empty",
    "-rw------- root/root 512 2026-01-02 03:04 block",
    `-rw------- root/root 2 2026-01-02 03:04 ${long}`,
  ])
})

test("tar reads what is in the files", () => {
  const archive = tarOf(files, 0)
  expect(archive.length % 512).toBe(0)
  for (const [name, text] of files) expect(tar(archive, "xOf", "-", name)).toBe(text)
})
