package coscheduling

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/reason"
)

// TestAnUnreadablePodGroupIsOneGangThatWaits with what to change, and no other gang hears of it.
func TestAnUnreadablePodGroupIsOneGangThatWaits(t *testing.T) {
	l := newLab(t, 2)
	l.group("bad", map[string]any{"minMember": int64(3_000_000_000)})
	l.group("g", map[string]any{"minMember": int64(1)})
	bad := l.member("bad", func(p *corev1.Pod) { p.Labels["scheduling.x-k8s.io/pod-group"] = "bad" })
	if why, _ := l.try(bad); why != "gang: the PodGroup cannot be used: spec.minMember is 3000000000, want a whole number from 1 to 10000" {
		t.Errorf("its member is told %q", why)
	}
	if why, waits := l.try(l.member("good")); why != "" || waits {
		t.Errorf("the member of another gang: %q, waits: %t", why, waits)
	}
	missing := l.member("missing", func(p *corev1.Pod) { p.Labels["scheduling.x-k8s.io/pod-group"] = "none" })
	if why, _ := l.try(missing); why != string(reason.GangUnknown.Text) {
		t.Errorf("a member without a PodGroup is told %q, want %q", why, string(reason.GangUnknown.Text))
	}
}
