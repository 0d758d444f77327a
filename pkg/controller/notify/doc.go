// Package notify sends notifications of how jobs ended, by webhooks of the kind that Slack and most others accept.
//
// A job names a channel. The channel's URL is in a Secret that only this package reads, so that users cannot make gpu-controller call arbitrary
// addresses. Deliveries are recorded on the Job, so that another leader continues where this one stopped. Duplicates occur only if a leader dies
// between a receiver's answer and that record, or if a receiver's answer is lost.
//
// decide.go and letter.go are pure. sender.go keeps one queue per channel, so that a slow or dead receiver delays only its own notifications. post.go
// calls receivers, directory.go resolves channels, and metrics.go reports failing channels.
package notify
