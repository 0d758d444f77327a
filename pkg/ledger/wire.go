package ledger

// APIRoot is the root path of the ledger's API.
const APIRoot = "/ledger/v1/"

// Where a cluster publishes the address of its ledger: a ConfigMap that users may read. Credentials are sent to the address, so it is in kube-system,
// where only administrators write.
const (
	AddressNamespace = "kube-system"
	AddressConfigMap = "g8s-ledger"
	// KeyURL is the address. KeyCA is the CA of the ledger's certificate in PEM; "" for the system's CAs.
	KeyURL = "url"
	KeyCA  = "ca.crt"
	// KeyLogStore is the page of the cluster's own log store, as LogStoreURL of package client parses it.
	KeyLogStore = "log-store-url"
)

// Failure is the body of every error answer.
type Failure struct {
	Error string `json:"error"`
}

// JobList is an answer with jobs, the last to finish first. JSON keys are a contract.
type JobList struct {
	Items []Job `json:"items"`
	// More says that there are more than requested.
	More bool `json:"more,omitempty"`
}

// JobDetail is one job with the holdings of its pods. JSON keys are a contract.
type JobDetail struct {
	Job
	Holdings []Holding `json:"holdings"`
	// More says that more holdings exist than are returned.
	More bool `json:"more,omitempty"`
}
