set -e
cd /srv/shop
[ "$(git show v1.2:VERSION)" = 1.2 ]
[ "$(git rev-parse v1.2)" = "$(git rev-parse main)" ]
git merge-base --is-ancestor release main
