// Package spot keeps a number of cloud machines alive as nodes of a pool, although the cloud reclaims them at any time.
//
// [Decide] is a pure function of a SpotPool's spec and status, the cloud's machines, and the nodes. The [Reconciler] gathers that, writes the new
// status, and only then acts: every cloud request is recorded before it is made, so that the next leader knows about it. The token of a machine
// follows from its name. Repeating a request with the same token buys nothing more, so neither a lost answer nor a controller that dies before it
// gets the answer buys a machine twice. Machines carry the tags of their SpotPool and can be found by them, whatever else is lost.
//
// [Cloud] is the interface to a cloud. The sub-packages implement it.
package spot
