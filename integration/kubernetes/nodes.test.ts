import { testCluster } from "../agent/testing/cases.ts"
import { RealApiServer } from "./testing/api-server.ts"

testCluster((lan, address) => RealApiServer.start(lan, address))
