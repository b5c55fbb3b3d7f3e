import type { Interface, Result } from "../../pkg/types/mod.ts"
import type { LinkValues } from "./link.ts"

/** Where the changes took place: the container's interface, and the host's end of it if that was changed too. */
export interface Places {
  ifName: string
  peer: string | undefined
}

/**
 * The result of the earlier plugins with the new MAC and MTU. An interface of the host that only has the same name as the
 * container's stays as it is; where no earlier plugin says what is in a sandbox, the name alone decides.
 */
export function tunedResult(previous: Result, { ifName, peer }: Places, { mac, mtu }: LinkValues): Result {
  const saysSandbox = previous.interfaces.some(({ sandbox }) => sandbox)
  const interfaces = previous.interfaces.map((one): Interface => {
    const isInside = saysSandbox ? Boolean(one.sandbox) : one.name === ifName
    if (isInside && one.name === ifName) return { ...one, ...(mac && { mac }), ...(mtu && { mtu }) }
    if (!isInside && one.name === peer && mtu !== undefined) return { ...one, mtu }
    return one
  })
  return { ...previous, interfaces }
}
