import { runPlugin } from "../../pkg/skel/mod.ts"
import { ptp } from "../../plugins/ptp/main.ts"
import { ipamPlugins } from "../ipam-plugins.ts"

export const run = () => runPlugin(ptp, ipamPlugins)
