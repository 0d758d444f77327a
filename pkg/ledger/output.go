package ledger

import (
	"bytes"
	"time"
)

// Output is the end of what a container printed, each line after the time at which the node read it. JSON keys are a
// contract.
type Output struct {
	Namespace string `json:"namespace"`
	Job       string `json:"job"`
	// JobUID is that of the job of the name, which may have been others before; "" if it was not seen.
	JobUID    string `json:"jobUID,omitempty"`
	Pod       string `json:"pod"`
	PodUID    string `json:"podUID"`
	Container string `json:"container"`
	// Created is when the pod was, and Kept when its output was read.
	Created time.Time `json:"created"`
	Kept    time.Time `json:"kept"`
	// Truncated says that there was more before.
	Truncated bool `json:"truncated,omitempty"`
	// Incomplete says that reading it broke off: there may have been more after.
	Incomplete bool   `json:"incomplete,omitempty"`
	Text       string `json:"text"`
}

// OutputList is an answer with output, that of the last job of a name. JSON keys are a contract.
type OutputList struct {
	Items []Output `json:"items"`
	// More says that there is more than one answer holds: ask for single pods.
	More bool `json:"more,omitempty"`
}

// Tail keeps the last bytes that are written to it.
type Tail struct {
	// Max is how many.
	Max  int
	kept []byte
	cut  bool
}

// Write implements io.Writer.
func (t *Tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if len(t.kept) > t.Max+t.Max/4 { // not each time: it moves all that is kept
		t.trim()
	}
	return len(p), nil
}

func (t *Tail) trim() {
	if over := len(t.kept) - t.Max; over > 0 {
		t.cut = true
		t.kept = t.kept[:copy(t.kept, t.kept[over:])]
	}
}

// Bytes are the lines that are kept whole, and whether there was more before.
func (t *Tail) Bytes() ([]byte, bool) {
	t.trim()
	if !t.cut {
		return t.kept, false
	}
	if end := bytes.IndexByte(t.kept, '\n'); end >= 0 {
		return t.kept[end+1:], true
	}
	return t.kept, true
}
