package ledger

import (
	"bytes"
	"time"
)

// Output is the end of a container's output, each line preceded by the time at which the node read it. JSON keys are a contract.
type Output struct {
	Namespace string `json:"namespace"`
	Job       string `json:"job"`
	// JobUID is the UID of the job, because the name may have belonged to others before; "" if it was not seen.
	JobUID    string `json:"jobUID,omitempty"`
	Pod       string `json:"pod"`
	PodUID    string `json:"podUID"`
	Container string `json:"container"`
	// Created is when the pod was created, and Kept when its output was read.
	Created time.Time `json:"created"`
	Kept    time.Time `json:"kept"`
	// Truncated says that earlier output was dropped.
	Truncated bool `json:"truncated,omitempty"`
	// Incomplete says that reading was interrupted: later output may be missing.
	Incomplete bool   `json:"incomplete,omitempty"`
	Text       string `json:"text"`
}

// OutputList is an answer with the output of the last job with a name. JSON keys are a contract.
type OutputList struct {
	Items []Output `json:"items"`
	// More says that the answer does not hold everything: query single pods.
	More bool `json:"more,omitempty"`
}

// Tail keeps the last bytes written to it.
type Tail struct {
	// Max is the number of bytes.
	Max  int
	kept []byte
	cut  bool
}

// Write implements io.Writer.
func (t *Tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if len(t.kept) > t.Max+t.Max/4 { // not each time, because it moves everything kept
		t.trimToMax()
	}
	return len(p), nil
}

func (t *Tail) trimToMax() {
	if over := len(t.kept) - t.Max; over > 0 {
		t.cut = true
		t.kept = t.kept[:copy(t.kept, t.kept[over:])]
	}
}

// Bytes returns the complete lines that are kept, and whether earlier output was dropped.
func (t *Tail) Bytes() ([]byte, bool) {
	t.trimToMax()
	if !t.cut {
		return t.kept, false
	}
	if end := bytes.IndexByte(t.kept, '\n'); end >= 0 {
		return t.kept[end+1:], true
	}
	return t.kept, true
}
