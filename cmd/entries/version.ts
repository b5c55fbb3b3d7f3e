import { newestVersion, supportedVersions } from "../../pkg/types/mod.ts"

/** Answers VERSION for every plugin (CNI 1.1.0, "VERSION"): one line, known without loading the plugin. */
export function run(): void {
  console.log(JSON.stringify({ cniVersion: newestVersion, supportedVersions }))
  process.exitCode = 0
}
