import { expect, test } from "bun:test"
import { parseIp } from "../../pkg/types/mod.ts"
import { virtualServers } from "./ipvs.ts"
import { NO_LABELS, type Packet, u32Bits } from "./packet.ts"

function packetTo(ip: string, destinationPort: number, protocol = 6): Packet {
  const destination = parseIp(ip) ?? expect.unreachable()
  return {
    source: destination,
    destination,
    protocol,
    destinationPort,
    input: "cni0",
    output: "",
    mark: u32Bits(0),
    connectionMark: u32Bits(0),
    connectionLabels: NO_LABELS,
    tracking: "new",
    original: { source: destination, destination, destinationPort },
    isDestinationMapped: false,
    isSourceMapped: false,
    isBridged: false,
  }
}

// /proc/net/ip_vs, net/netfilter/ipvs/ip_vs_ctl.c: ip_vs_info_seq_show
const table = `IP Virtual Server version 1.2.1 (size=4096)
Prot LocalAddress:Port Scheduler Flags
  -> RemoteAddress:Port Forward Weight ActiveConn InActConn
TCP  0A60000A:0050 rr 
  -> 0A550004:1F90      Masq    1      0          0         
  -> 0A550003:0050      Masq    1      0          0         
TCP  0A60000B:0050 rr 
UDP  0A60000A:0035 rr 
  -> 0A550003:0035      Masq    1      0          0         
TCP  [fd00:0000:0000:0000:0000:0000:0000:000a]:0050 rr 
  -> [fd00:0085:0000:0000:0000:0000:0000:0003]:0050      Masq    1      0          0         
`

test("the servers of a virtual service are those of its protocol, address and port", () => {
  expect(virtualServers(packetTo("10.96.0.10", 80), table)).toEqual(["10.85.0.4:8080", "10.85.0.3:80"])
  expect(virtualServers(packetTo("10.96.0.10", 53, 17), table)).toEqual(["10.85.0.3:53"])
  expect(virtualServers(packetTo("fd00::a", 80), table)).toEqual(["[fd00:85::3]:80"])
  expect(virtualServers(packetTo("10.96.0.11", 80), table)).toEqual([])
})

test("other destinations match no virtual service, nor does any without ip_vs", () => {
  expect(virtualServers(packetTo("10.96.0.10", 81), table)).toBeUndefined()
  expect(virtualServers(packetTo("10.96.0.10", 0, 1), table)).toBeUndefined()
  expect(virtualServers(packetTo("10.96.0.10", 80), undefined)).toBeUndefined()
})
