import { runPlugin } from "../../pkg/skel/mod.ts"
import { macvlan } from "../../plugins/macvlan/main.ts"
import { ipamPlugins } from "../ipam-plugins.ts"

export const run = () => runPlugin(macvlan, ipamPlugins)
