// Package fault defines the words for faults of a GPU in a node's inventory, and the meaning of NVIDIA's XIDs.
package fault

import (
	"strconv"
	"strings"
)

// Words for what is wrong, beside those of XIDs.
const (
	Lost           = "Lost"
	ResetRequired  = "ResetRequired"
	RebootRequired = "RebootRequired"
	RowRemapFailed = "RowRemapFailed"
	NVLinkDown     = "NVLinkDown"
	TooHot         = "TooHot"
	// RepeatedErrors is that of a GPU with errors that are no proof each, and came too often.
	RepeatedErrors = "RepeatedErrors"
)

// Words are all of these.
var Words = []string{Lost, ResetRequired, RebootRequired, RowRemapFailed, NVLinkDown, TooHot, RepeatedErrors}

const xid = "Xid"

// XIDWord is the word for an XID.
func XIDWord(code uint64) string { return xid + strconv.FormatUint(code, 10) }

// ParseXID returns the XID that a word is for, false for another word.
func ParseXID(word string) (uint64, bool) {
	digits, ok := strings.CutPrefix(word, xid)
	code, err := strconv.ParseUint(digits, 10, 64)
	if !ok || err != nil {
		return 0, false
	}
	return code, true
}

// OnlyResetMends reports whether a GPU with this health word is lost for the program that runs on it: the error requires a reset, a restart or
// service, by its XID or by the driver's own report. Other faults may pass, as when the driver did not answer for a moment, or leave the program its
// GPU, though a slow one.
func OnlyResetMends(word string) bool {
	if code, ok := ParseXID(word); ok {
		return ClassOf(code).TakesOut()
	}
	return word == ResetRequired || word == RebootRequired
}
