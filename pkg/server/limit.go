package server

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/cache"

	"g8s.host/gpu-scheduler/pkg/serving"
)

// limiter limits the request rate of each caller, and of each address before authentication.
type limiter struct {
	rate  rate.Limit
	burst int
	// buckets holds a *rate.Limiter for each recent caller and address.
	buckets *cache.LRUExpireCache
}

const (
	maxBuckets = 16384
	idleBucket = 10 * time.Minute
	// addressFactor is the limit of an address relative to that of a caller: many callers may share one address.
	addressFactor = 10
)

func newLimiter(perSecond float64, burst int) *limiter {
	return &limiter{rate: rate.Limit(perSecond), burst: burst, buckets: cache.NewLRUExpireCache(maxBuckets)}
}

func (l *limiter) perCaller(next http.Handler, weigh func(*http.Request) int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, err := callerFrom(r.Context())
		if err != nil { // a public route
			next.ServeHTTP(w, r)
			return
		}
		l.serveLimited(w, r, next, "caller "+caller.User.GetName(), 1, weigh(r))
	})
}

func (l *limiter) perAddress(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.serveLimited(w, r, next, "address "+serving.HostOf(r.RemoteAddr), addressFactor, 1)
	})
}

func (l *limiter) serveLimited(w http.ResponseWriter, r *http.Request, next http.Handler, key string, factor, weight int) {
	bucket := l.bucketFor(key, factor)
	reservation := bucket.ReserveN(time.Now(), min(weight, bucket.Burst())) // more than the burst would never be let in
	delay := reservation.Delay()
	if delay == 0 {
		next.ServeHTTP(w, r)
		return
	}
	reservation.Cancel()
	if !serving.DelayRefusal(r.Context()) {
		return
	}
	seconds := int(math.Ceil(delay.Seconds()))
	failed := failureFromError(r.Context(), &refusal{status: http.StatusTooManyRequests, code: "TooManyRequests",
		text: fmt.Sprintf("too many requests: at most %g a second%s, try again in %d s", float64(l.rate)*float64(factor), describeWeight(weight), seconds)})
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
	w.Header().Set("Content-Type", jsonType)
	w.WriteHeader(failed.status)
	_ = encodeJSON(w, failed) // the client is gone
}

// describeWeight says how many requests a request counts as, where that is not one.
func describeWeight(weight int) string {
	if weight == 1 {
		return ""
	}
	return fmt.Sprintf(" (this one counts as %d)", weight)
}

// bucketFor returns the rate limiter of a key. Two concurrent first requests may each create one, and one of the two is dropped.
func (l *limiter) bucketFor(key string, factor int) *rate.Limiter {
	if known, ok := l.buckets.Get(key); ok {
		if bucket, ok := known.(*rate.Limiter); ok {
			l.buckets.Add(key, bucket, idleBucket)
			return bucket
		}
	}
	bucket := rate.NewLimiter(l.rate*rate.Limit(factor), l.burst*factor)
	l.buckets.Add(key, bucket, idleBucket)
	return bucket
}

// weighByRoute returns how many requests a request counts as, from the weights of patterns.
func weighByRoute(mux *http.ServeMux, weights map[string]int) func(*http.Request) int {
	return func(r *http.Request) int {
		_, pattern := mux.Handler(r)
		return max(1, weights[pattern])
	}
}
