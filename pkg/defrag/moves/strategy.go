package moves

const (
	// directTries and singleTries are how long places are looked for in a hurry.
	directTries, singleTries = 64, 256
	// attemptShare is the part of all tries that one set of pods may take.
	attemptShare = 64
	// improvingShare is the part of the tries that goes on when some plan may be known.
	improvingShare = 4
)

// strategy is how places are looked for.
type strategy[P comparable] struct {
	// extra is how many pods may be displaced, beside those of an eviction.
	extra func(*eviction[P]) int
	// single is whether only single pods may be that find room by themselves.
	single bool
	// tries is how often to look for one eviction.
	tries int
}

// direct displaces nobody, which is quick.
func direct[P comparable]() strategy[P] {
	return strategy[P]{tries: directTries, extra: func(*eviction[P]) int { return 0 }}
}

// chains displaces single pods that find room themselves, as many as may be: it finds some plan even where next to nothing
// is free.
func (s *search[P]) chains() strategy[P] {
	return strategy[P]{tries: singleTries, single: true, extra: func(e *eviction[P]) int { return s.most() - len(e.pods) }}
}

// thorough looks at every way with so many moves.
func (s *search[P]) thorough(moves int) strategy[P] {
	return strategy[P]{
		tries: s.limits.Tries / attemptShare,
		extra: func(e *eviction[P]) int { return min(moves, s.most()) - len(e.pods) },
	}
}
