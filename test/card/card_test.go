package card

import "testing"

// TestCards is skipped where there is no card; see [Suite].
func TestCards(t *testing.T) { Suite(t) }
