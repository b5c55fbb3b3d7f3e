import { expect, test } from "bun:test"
import { formatIp } from "../../pkg/types/mod.ts"
import { dnsQuestion, hostServers } from "./dns.ts"

// RFC 1035, 4.1: header with RD and one question; `dig +noedns www.example.com A` and `dig +noedns . NS` send these
// bytes
test("a question for a name asks for its address, one for the root for its name servers", () => {
  const id = Uint8Array.of(0xab, 0xcd)
  expect(dnsQuestion(id, "www.example.com").toHex()).toBe(
    "abcd01000001000000000000" + "03777777076578616d706c6503636f6d00" + "00010001",
  )
  expect(dnsQuestion(id, "www.example.com.")).toEqual(dnsQuestion(id, "www.example.com"))
  expect(dnsQuestion(id, ".").toHex()).toBe("abcd01000001000000000000" + "00" + "00020001")
})

test("of a resolv.conf those servers count that another namespace can reach", () => {
  const text = `# nameserver 192.0.2.9
search example.com
nameserver 127.0.0.53
nameserver 192.0.2.53
 nameserver 2001:db8::53
nameserver ::1
nameserver fe80::1%eth0
nameserver`
  expect(hostServers(text).map(formatIp)).toEqual(["192.0.2.53", "2001:db8::53"])
  expect(hostServers("")).toEqual([])
})
