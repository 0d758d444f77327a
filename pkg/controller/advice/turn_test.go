package advice

import "testing"

func TestTurn(t *testing.T) {
	var turn simulationSlot
	steps := []struct {
		what  string
		pool  string
		first bool
		want  bool
	}{
		{"the first one has it", "a", true, true},
		{"nobody else has it meanwhile", "b", true, false},
		{"and nobody whose advice is old", "c", false, false},
	}
	for _, step := range steps {
		if got := turn.tryAcquire(step.pool, step.first); got != step.want {
			t.Fatalf("%s: got %t", step.what, got)
		}
	}
	turn.release()
	if turn.tryAcquire("c", false) {
		t.Fatal("one whose advice is old came before one that has none")
	}
	if !turn.tryAcquire("b", true) {
		t.Fatal("the one that waited did not get its turn")
	}
	turn.tryAcquire("d", true)
	turn.release()
	turn.forgetPool("d")
	if !turn.tryAcquire("c", false) {
		t.Fatal("one that waits no more keeps others waiting")
	}
}
