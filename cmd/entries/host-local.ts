import { hostLocal } from "../../ipam/host-local/main.ts"
import { runPlugin } from "../../pkg/skel/mod.ts"

export const run = () => runPlugin(hostLocal)
