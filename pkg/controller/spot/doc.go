// Package spot keeps a number of machines of a cloud alive as nodes of a pool, though the cloud takes them back when it likes.
//
// [Decide] is a pure function of what a SpotPool asks, what its status remembers, what the cloud has and how the nodes are. The
// [Reconciler] gathers that, writes the new status, and only then does what the decision says: what the cloud is about to be asked
// is remembered before it is asked, so that whoever leads next knows of it. A machine is bought under a token that follows from its
// name. Asking again under the same token buys nothing more, so an answer that is lost, or a controller that dies before it hears
// it, buys no machine twice. Machines carry the tags of their SpotPool and are found by them, whatever was lost.
//
// [Cloud] is what is asked of a cloud. Its sub-packages are clouds.
package spot
