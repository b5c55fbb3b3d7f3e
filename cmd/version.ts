import { newestVersion, supportedVersions } from "../pkg/types/mod.ts"

/** What every plugin answers to VERSION (CNI 1.1.0, "VERSION"): one line, known without loading the plugin. */
export function versionReply(): string {
  return JSON.stringify({ cniVersion: newestVersion, supportedVersions })
}
