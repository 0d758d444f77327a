package advice

import "testing"

func TestTurn(t *testing.T) {
	var turn turn
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
		if got := turn.take(step.pool, step.first); got != step.want {
			t.Fatalf("%s: got %t", step.what, got)
		}
	}
	turn.giveBack()
	if turn.take("c", false) {
		t.Fatal("one whose advice is old came before one that has none")
	}
	if !turn.take("b", true) {
		t.Fatal("the one that waited did not get its turn")
	}
	turn.take("d", true)
	turn.giveBack()
	turn.forget("d")
	if !turn.take("c", false) {
		t.Fatal("one that waits no more keeps others waiting")
	}
}
