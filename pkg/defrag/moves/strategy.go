package moves

const (
	// directTries and singleTries bound the quick searches.
	directTries, singleTries = 64, 256
	// attemptShare is the divisor of the tries for one set of pods.
	attemptShare = 64
	// improvingShare is the divisor of the tries that remain once a plan may be known.
	improvingShare = 4
)

// strategy controls the search for places.
type strategy[P comparable] struct {
	// extra bounds the displaced pods beyond those of an eviction.
	extra func(*eviction[P]) int
	// single allows only single pods that find room by themselves to be displaced.
	single bool
	// tries bounds the search for one eviction.
	tries int
}

// directStrategy displaces no pods, which is fast.
func directStrategy[P comparable]() strategy[P] {
	return strategy[P]{tries: directTries, extra: func(*eviction[P]) int { return 0 }}
}

// chainStrategy displaces as many single pods as allowed that find room themselves: it finds a plan even if almost nothing is free.
func (s *search[P]) chainStrategy() strategy[P] {
	return strategy[P]{tries: singleTries, single: true, extra: func(e *eviction[P]) int { return s.maxMoves() - len(e.pods) }}
}

// thoroughStrategy searches all plans with a number of moves.
func (s *search[P]) thoroughStrategy(moves int) strategy[P] {
	return strategy[P]{
		tries: s.limits.Tries / attemptShare,
		extra: func(e *eviction[P]) int { return min(moves, s.maxMoves()) - len(e.pods) },
	}
}
