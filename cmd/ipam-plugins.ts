import { hostLocal } from "../ipam/host-local/main.ts"
import { staticIpam } from "../ipam/static/main.ts"
import type { Plugin } from "../pkg/skel/mod.ts"

/** The IPAM plugins that run in the process of the plugin that asks them for addresses. */
export const ipamPlugins: readonly Plugin<unknown>[] = [hostLocal, staticIpam]
