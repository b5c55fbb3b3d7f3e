import { tuning } from "../../meta/tuning/main.ts"
import { runPlugin } from "../../pkg/skel/mod.ts"

export const run = () => runPlugin(tuning)
