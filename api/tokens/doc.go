// Package tokens says who may do what: it reads the tokens file, checks the
// Authorization header of a request against it, and limits how often each name
// may ask.
//
// # The file
//
// A line is a token; what follows a # that begins a word is a comment:
//
//	# name  roles       hash of the token       at most this often
//	orders  write       sha256:<64 hex digits>  rate=200 burst=400
//	orders  write       sha256:<64 hex digits>  rate=200 burst=400  # its successor
//	grafana read        sha256:<64 hex digits>
//	ops     admin       sha256:<64 hex digits>
//
// Roles are a ladder ([Role]); of several separated by commas the highest
// counts. Lines of one name are tokens valid at once, as a rotation needs: add
// the new one, change the clients, remove the old one. They agree in all but
// the hash, and share one rate.
//
// rate is in requests per second, decimals allowed; burst is how many may come
// at once, by default a second's worth and at least one. A name without a rate
// is not limited. The rate is that of one node: behind n nodes a name gets up
// to n times as much. A request refused for its role takes nothing from it.
//
// # Tokens
//
// A token is chr_ and 256 random bits as 43 characters of base64url. [Generate]
// makes it with its line for the file, which holds only the token's SHA-256. A
// slow, salted hash as for passwords would buy nothing: those make guessing
// dear, and 256 random bits are beyond guessing whatever a try costs. For the
// same reason wrong tokens aren't counted by source. What has another form than
// a token is refused before it is hashed, so a weak secret of someone's own
// whose hash is put into the file never works, and a try costs at most the
// hashing of 47 bytes and one look at each line.
//
// The look compares the whole hash with that of every line and takes equally
// long whichever agrees, or none. A map would be safe too (time would at most
// tell bits of a hash, of which no token follows), but the files are short and
// this needs no argument.
package tokens
