package ledger

// APIRoot is the path under which the ledger is served.
const APIRoot = "/ledger/v1/"

// Where a cluster says where its ledger is, if it does: a ConfigMap that its users may read. Credentials are sent to the address,
// so it is in kube-system, where administrators alone write.
const (
	AddressNamespace = "kube-system"
	AddressConfigMap = "g8s-ledger"
	// KeyURL is the address, KeyCA the certificate that the ledger's is signed by, in PEM; "" for the authorities of the machine.
	KeyURL = "url"
	KeyCA  = "ca.crt"
	// KeyLogStore is the page of the cluster's own store of output, as LogStoreURL of client reads it.
	KeyLogStore = "log-store-url"
)

// Failure is the body of every answer that is none.
type Failure struct {
	Error string `json:"error"`
}

// JobList is an answer with jobs, the last to finish first. JSON keys are a contract.
type JobList struct {
	Items []Job `json:"items"`
	// More says that there are more than were asked for.
	More bool `json:"more,omitempty"`
}

// JobDetail is one job with what its pods held. JSON keys are a contract.
type JobDetail struct {
	Job
	Holdings []Holding `json:"holdings"`
	// More says that there are more holdings than are told.
	More bool `json:"more,omitempty"`
}
