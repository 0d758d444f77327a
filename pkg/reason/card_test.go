package reason

import (
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/pkg/gpu/fault"
)

func TestOfCard(t *testing.T) {
	for word, want := range map[string][2]string{
		"Xid79":            {"has fallen off the bus (XID 79)", restart.String()},
		"Xid48":            {"has an error in its memory that cannot be corrected (XID 48)", reset.String()},
		"Xid54":            {"is not connected to its power (XID 54)", service.String()},
		"Xid136":           {"reported XID 136", reset.String()},
		"Xid99999":         {"reported XID 99999", "look it up in NVIDIA's catalog of XIDs; " + reset.String()},
		fault.Lost:         {"does not answer its driver any more", restart.String()},
		fault.TooHot:       {"is slowed down by heat", "see to the cooling of the node"},
		"SomebodysOwnWord": {"must not be used: SomebodysOwnWord", "see what the log of the node's gpu-agent says of it"},
	} {
		if got := GPUFaultOf(word); got.Message.String() != want[0] || got.Remedy.String() != want[1] {
			t.Errorf("%s: got %+v, want %q", word, got, want)
		}
	}
}

// TestAllFaultsAreKnown: a word of an agent, or an XID with a sentence, that this catalogue forgets would be told as a stranger's.
func TestAllFaultsAreKnown(t *testing.T) {
	for _, word := range fault.Words {
		if strings.Contains(GPUFaultOf(word).Message.String(), word) {
			t.Errorf("nothing is said of %s", word)
		}
	}
	for code := range xids {
		if !fault.ClassOf(code).TakesOut() {
			t.Errorf("XID %d takes no card out, and has a sentence", code)
		}
	}
}
