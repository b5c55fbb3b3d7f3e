import { staticIpam } from "../../ipam/static/main.ts"
import { runPlugin } from "../../pkg/skel/mod.ts"

export const run = () => runPlugin(staticIpam)
