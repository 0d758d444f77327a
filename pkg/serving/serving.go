// Package serving contains the common parts of our HTTP servers: every request is answered, deadlines end with their requests, and the number of
// connections and the memory of unread answers are bounded.
package serving
