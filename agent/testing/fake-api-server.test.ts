import { testApiStatements } from "./api-statements.ts"
import { FakeApiServer } from "./fake-api-server.ts"

testApiStatements("the fake API server answers as a real one", () => FakeApiServer.start())
