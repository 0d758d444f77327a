// Package fault has the words for what is wrong with a card, as a node's inventory says it, and what NVIDIA's XIDs mean.
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
	// RepeatedErrors is that of a card with errors that are no proof each, and came too often.
	RepeatedErrors = "RepeatedErrors"
)

// Words are all of these.
var Words = []string{Lost, ResetRequired, RebootRequired, RowRemapFailed, NVLinkDown, TooHot, RepeatedErrors}

const xid = "Xid"

// Xid is the word for an XID.
func Xid(code uint64) string { return xid + strconv.FormatUint(code, 10) }

// XidOf returns the XID that a word is for, false for another word.
func XidOf(word string) (uint64, bool) {
	digits, ok := strings.CutPrefix(word, xid)
	code, err := strconv.ParseUint(digits, 10, 64)
	if !ok || err != nil {
		return 0, false
	}
	return code, true
}

// OnlyResetMends reports whether a card that has this word for its health is of no more use to the program that runs on it: the error was
// announced as one that takes a reset, a restart or service, or the driver says so itself. All else may pass, as when the
// driver did not answer for a moment, or leaves a program its card, if a slow one.
func OnlyResetMends(word string) bool {
	if code, ok := XidOf(word); ok {
		return ClassOf(code).TakesOut()
	}
	return word == ResetRequired || word == RebootRequired
}
