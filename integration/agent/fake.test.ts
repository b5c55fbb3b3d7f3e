import { FakeClusterApi } from "./testing/api.ts"
import { testCluster } from "./testing/cases.ts"

testCluster((lan, address) => FakeClusterApi.start(lan, address))
