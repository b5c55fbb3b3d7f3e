import { findNodeRanges } from "../../ipam/host-local/main.ts"
import { contains, isCniError, parseCidr, parseIp } from "../../pkg/types/mod.ts"
import { affectedBy, type Check, cniCommand, type Finding } from "./finding.ts"

/** Finds containers with addresses outside the node's range, because they were attached before the range changed. */
export const checkNodeRanges: Check = (input) =>
  input.node.networks.flatMap(({ network, pools }) =>
    pools.flatMap(({ rangesFile, directory }): Finding[] => {
      const ranges = rangesFile === undefined ? [] : rangesIn(rangesFile)
      if (network === undefined || ranges.length === 0) return [] // STATUS of host-local reports a missing range
      const leases = input.node.stores.find((store) => store.directory === directory)?.leases ?? []
      const outside = leases.filter(({ address }) => {
        const ip = parseIp(address)
        return ip !== undefined && !ranges.some(({ cidr }) => contains(cidr, ip))
      })
      const isOf = new Set(outside.map(({ address }) => address))
      const affected = input.attachments.filter(
        (one) => one.network === network.name && one.addresses.some((text) => isOf.has(text.replace(/\/.*/, ""))),
      )
      return outside.length === 0
        ? []
        : [
            {
              rule: "address-outside",
              severity: "warning",
              network: network.name,
              affected: affected.map((one) => affectedBy(one)),
              what: `${outside.map(({ address }) => address).join(", ")} ${outside.length === 1 ? "is" : "are"} not in this node's range, ${ranges.map(({ text }) => text).join(" and ")}`,
              why: "the addresses belong to the range of another node, or will: other nodes do not route them to this node",
              remedy: `delete the pods, which ${cniCommand(input, "ipam", ["ls", network.name]).line} lists: their controllers re-create them with addresses of the range`,
            },
          ]
    }),
  )

function rangesIn(file: string) {
  try {
    return (findNodeRanges(file)?.ranges ?? []).flatMap((text) => {
      const cidr = parseCidr(text)
      return cidr ? [{ text, cidr }] : []
    })
  } catch (error) {
    if (isCniError(error)) return []
    throw error
  }
}
