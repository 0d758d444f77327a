// Package notify tells people how their jobs ended, by webhooks of the kind that Slack and most others take.
//
// A job names a channel; where that leads is in a Secret which this package alone reads, so that no user has gpu-controller call
// an address of theirs. What was told is noted on the Job, so that another leader goes on where this one stopped. A leader that
// dies between the answer of a receiver and that note, and a receiver whose answer is lost, are the only ways to be told twice.
//
// decide.go and letter.go are pure; sender.go keeps the lines of letters, one a channel, so that a receiver which is slow or dead
// keeps nothing back but what is for itself; post.go talks to receivers, directory.go knows where channels lead, and
// metrics.go tells which of them take nothing.
package notify
