import { expect, test } from "bun:test"
import { cni } from "../../cmd/cni/main.ts"
import { formatIp } from "../../pkg/types/mod.ts"
import { recordingTerminal } from "../testing.ts"
import { parseDestination } from "./command.ts"

test.each([
  ["192.0.2.7:443", false, "192.0.2.7", 443, "tcp"],
  ["192.0.2.7:53", true, "192.0.2.7", 53, "udp"],
  ["192.0.2.7", false, "192.0.2.7", 0, "icmp"],
  ["192.0.2.7", true, "192.0.2.7", 0, "udp"],
  ["192.0.2.7:65535", false, "192.0.2.7", 65535, "tcp"],
  ["[2001:db8::7]:53", false, "2001:db8::7", 53, "tcp"],
  ["[2001:db8::7]", false, "2001:db8::7", 0, "icmp"],
  ["2001:db8::7", false, "2001:db8::7", 0, "icmp"],
  ["2001:db8::7:53", false, "2001:db8::7:53", 0, "icmp"],
  ["::", false, "::", 0, "icmp"],
] as const)("a packet to %s, of UDP: %p, goes to %s, port %d, by %s", (text, isUdp, ip, port, protocol) => {
  const destination = parseDestination(text, isUdp)
  expect({ ...destination, ip: formatIp(destination.ip) }).toEqual({ ip, port, protocol })
})

test.each([
  "",
  "nowhere",
  "192.0.2.7:",
  "192.0.2.7:65536",
  "192.0.2.7:x",
  "192.0.2.256",
  "[192.0.2.7:5",
  "[2001:db8::7",
  "2001:db8::7]:5",
  "x192.0.2.7:5",
  "192.0.2.7:5x",
  ":5",
])("%p is not a destination", (text) => {
  expect(() => parseDestination(text, false)).toThrow(
    `cannot use --to ${text}: expected ADDRESS[:PORT], like 192.0.2.7:443 or [2001:db8::7]:443`,
  )
})

test("what has to be said of the packet", async () => {
  const say = async (...args: string[]) => {
    const terminal = recordingTerminal({})
    return [await cni(["trace", "pods", "/run/netns/none", ...args], terminal), terminal.out, terminal.err]
  }
  const usage = (what: string) => [2, "", `cni trace: ${what}. "cni trace --help" shows how\n`]
  expect(await say()).toEqual(usage("name the destination: --to ADDRESS[:PORT]"))
  for (const to of [["192.0.2.7"], ["192.0.2.7:53", "--udp"], ["192.0.2.7", "--udp"]]) {
    expect(await say("--probe", "--to", ...to)).toEqual(usage("--probe needs a TCP port: --to ADDRESS:PORT"))
  }
})
