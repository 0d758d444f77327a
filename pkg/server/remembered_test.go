package server

import (
	"fmt"
	"testing"
	"time"
)

// TestWhatIsRememberedIsBoundedInBytes, each caller's and all together, and nobody's answers go for those of who has more.
func TestWhatIsRememberedIsBoundedInBytes(t *testing.T) {
	began := time.Unix(0, 0)
	m := newAnswerStore(100<<10, 40<<10)
	put := func(user string, n, size int) {
		m.storeAnswer(idempotencyKey{user: user, key: fmt.Sprint(n)}, &answer{at: began, body: make([]byte, size)})
	}
	has := func(user string, n int) bool {
		return m.findAnswer(idempotencyKey{user: user, key: fmt.Sprint(n)}, began) != nil
	}
	put("quiet", 0, 1000)
	for n := range 800 {
		put("greedy", n, 9<<10)
	}
	if m.bytes > 50<<10 || !has("greedy", 799) || has("greedy", 0) || !has("quiet", 0) {
		t.Errorf("%d bytes are remembered", m.bytes)
	}
	for n := range 50 {
		put(fmt.Sprint("many", n%5), n, 9<<10)
	}
	if m.bytes > 100<<10 || !has("quiet", 0) {
		t.Errorf("%d bytes are remembered of all, and the small one of one: %t", m.bytes, has("quiet", 0))
	}
	put("large", 0, 41<<10)
	if has("large", 0) {
		t.Error("an answer that is larger than all that one may have is remembered")
	}
	if m.findAnswer(idempotencyKey{user: "quiet", key: "0"}, began.Add(keyTTL)) != nil {
		t.Error("an answer outlives its life")
	}
	sum := 0
	for _, own := range m.owners {
		sum += own.bytes
	}
	if sum != m.bytes {
		t.Errorf("the owners have %d bytes, all together %d", sum, m.bytes)
	}
}
