import { runPlugin } from "../../pkg/skel/mod.ts"
import { bridge } from "../../plugins/bridge/main.ts"
import { ipamPlugins } from "../ipam-plugins.ts"

export const run = () => runPlugin(bridge, ipamPlugins)
