/** The parts of the dhcp plugin that only tests with a kernel use. */
export { kernelLinks } from "../daemon/environment.ts"
export type { Holder } from "../daemon/holder.ts"
export { Journal, type LeaseRecord } from "../daemon/journal.ts"
export { parseOptions } from "../daemon/options.ts"
export { Service } from "../daemon/service.ts"

export { readPacket } from "../protocol/frames.ts"
export * as captured from "../protocol/testing/captured.ts"
export {
  answer4,
  answer6,
  association6,
  config4,
  config6,
  createClient,
  readSent,
  type Sent,
} from "../protocol/testing/link.ts"
export type { CallArguments } from "../rpc/messages.ts"
