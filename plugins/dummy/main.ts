import {
  type Attaching,
  addInterface,
  configureInterface,
  defineInterfacePlugin,
  type Lease,
} from "../../pkg/attachment/mod.ts"
import type { InterfaceConfig } from "../../pkg/config/mod.ts"
import { runPlugin } from "../../pkg/skel/mod.ts"
import type { Interface } from "../../pkg/types/mod.ts"
import { dummyFields, parseDummyConfig } from "./config.ts"

export { dummyKeyDocs } from "./config.ts"

/** Gives a container an interface that is connected to no network, to hold addresses. */
export const dummy = defineInterfacePlugin<InterfaceConfig>({
  name: "dummy",
  kind: "dummy",
  fields: dummyFields,
  config: parseDummyConfig,
  attach: attachDummy,
})

/** Creates the interface. Throws `CniError`. */
export function attachDummy(attaching: Attaching, lease: Lease, config: InterfaceConfig): Interface[] {
  const { mtu, mac } = config
  const link = addInterface(attaching, { kind: "dummy", mtu, mac, data: {} })
  return configureInterface(attaching, link, lease, config)
}

if (import.meta.main) runPlugin(dummy)
