package inventory

import "testing"

func TestVerdictKeepsWhatHelps(t *testing.T) {
	const told = "0/64 nodes are available: 16 node(s) have fewer GPUs than the pod asks for, 48 node(s) didn't satisfy " +
		"plugin(s) [GPUFilter]. no new claims to deallocate, preemption: 0/64 nodes are available: 64 Preemption is not " +
		"helpful for scheduling."
	const want = "16 node(s) have fewer GPUs than the pod asks for, 48 node(s) are in another pool or have another GPU type"
	if got := ShortenVerdict(told); got != want {
		t.Errorf("verdict is %q, want %q", got, want)
	}
	if got := ShortenVerdict(want); got != want {
		t.Errorf("a verdict of a verdict is %q, want it unchanged", got)
	}
}

func TestAGangThatIsNotWholeIsToldInWords(t *testing.T) {
	const told = "0/16 nodes are available: pre-filter pod a-1-x cannot find enough sibling pods, current pods number: 1, " +
		"minMember of group: 20. preemption: 0/16 nodes are available: 16 No preemption victims found."
	const want = "1 of the 20 members of the job were there when the scheduler looked"
	if got := ShortenVerdict(told); got != want {
		t.Errorf("verdict is %q, want %q", got, want)
	}
}
