package bounds

import (
	"testing"
	"time"
)

func TestABusyMachineMayTakeLonger(t *testing.T) {
	for documented, want := range map[time.Duration]time.Duration{2 * time.Second: 7 * time.Second, 40 * time.Second: 80 * time.Second} {
		t.Setenv("BOUNDS", "")
		if got := Of(documented); got != want {
			t.Errorf("of %s: %s, want %s", documented, got, want)
		}
		t.Setenv("BOUNDS", "docs")
		if got := Of(documented); got != documented {
			t.Errorf("of %s, as documented: %s", documented, got)
		}
	}
}
